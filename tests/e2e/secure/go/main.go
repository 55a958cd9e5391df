// Records there and back with franz-go, or a question about the cluster. One argument: the plan, as JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type planned struct {
	Bootstrap, Ca, Cert, Mechanism, User, Password, Topic, Group, Value, Wants string
	Count                                                                      int
	TokenUrl                                                                   string  `json:"token_url"`
	PauseS                                                                     float64 `json:"pause_s"`
	WithinS                                                                    int     `json:"within_s"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (plan planned) token(ctx context.Context) (oauth.Auth, error) {
	answer, err := http.PostForm(plan.TokenUrl, url.Values{"grant_type": {"client_credentials"},
		"client_id": {plan.User}, "client_secret": {plan.Password}})
	if err != nil {
		return oauth.Auth{}, err
	}
	defer answer.Body.Close()
	var found struct {
		Token string `json:"access_token"`
	}
	err = json.NewDecoder(answer.Body).Decode(&found)
	return oauth.Auth{Token: found.Token}, err
}

func main() {
	var plan planned
	check(json.Unmarshal([]byte(os.Args[1]), &plan))
	ca, err := os.ReadFile(plan.Ca)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if plan.Cert != "" {
		own, err := tls.LoadX509KeyPair(plan.Cert, plan.Cert)
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	options := []kgo.Opt{kgo.SeedBrokers(plan.Bootstrap), kgo.DialTLSConfig(config),
		kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(time.Duration(plan.WithinS) * time.Second)}
	switch {
	case plan.Mechanism == "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Oauth(plan.token)))
	case plan.Mechanism == "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: plan.User, Pass: plan.Password}.AsMechanism()))
	case plan.Mechanism == "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: plan.User, Pass: plan.Password}.AsSha512Mechanism()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(options...)
	check(err)
	if plan.Wants == "cluster" {
		asked := kmsg.NewPtrDescribeACLsRequest()
		asked.ResourceType, asked.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		asked.Operation, asked.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		answer, err := asked.RequestWith(ctx, producer)
		check(err)
		check(kerr.ErrorForCode(answer.ErrorCode))
		fmt.Println("ok")
		return
	}
	for at := 0; at < plan.Count; at++ {
		record := &kgo.Record{Topic: plan.Topic, Value: []byte(fmt.Sprintf("%s%d", plan.Value, at))}
		check(producer.ProduceSync(ctx, record).FirstErr())
		time.Sleep(time.Duration(plan.PauseS * float64(time.Second)))
	}
	producer.Close()
	consumer, err := kgo.NewClient(append(options, kgo.ConsumerGroup(plan.Group), kgo.ConsumeTopics(plan.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	check(err)
	for found := 0; found < plan.Count; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		found += fetches.NumRecords()
	}
	consumer.Close()
	fmt.Println("ok")
}
