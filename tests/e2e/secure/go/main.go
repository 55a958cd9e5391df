// A record there and back with franz-go. One argument: the plan, as JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type planned struct {
	Bootstrap, Ca, Cert, Mechanism, User, Password, Token, Topic, Value string
	Count                                                               int
	PauseS                                                              float64 `json:"pause_s"`
	WithinS                                                             int     `json:"within_s"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	case plan.Token != "":
		options = append(options, kgo.SASL(oauth.Auth{Token: plan.Token}.AsMechanism()))
	case plan.Mechanism == "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: plan.User, Pass: plan.Password}.AsMechanism()))
	case plan.Mechanism == "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: plan.User, Pass: plan.Password}.AsSha512Mechanism()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(options...)
	check(err)
	for at := 0; at < plan.Count; at++ {
		record := &kgo.Record{Topic: plan.Topic, Value: []byte(fmt.Sprintf("%s%d", plan.Value, at))}
		check(producer.ProduceSync(ctx, record).FirstErr())
		time.Sleep(time.Duration(plan.PauseS * float64(time.Second)))
	}
	producer.Close()
	consumer, err := kgo.NewClient(append(options, kgo.ConsumerGroup(plan.Topic), kgo.ConsumeTopics(plan.Topic),
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
