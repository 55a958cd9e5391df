// The worker of franz-go, for tests/e2e/compat: operations.py says what it may be asked.
//
// One argument: the address. A question is a line of JSON, and is answered by a goroutine of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type record struct {
	Topic     string      `json:"topic"`
	Partition *int32      `json:"partition"`
	Offset    int64       `json:"offset"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
	Timestamp *int64      `json:"timestamp"`
}

type settings struct {
	Acks       string `json:"acks"`
	Codec      string `json:"codec"`
	BatchBytes int32  `json:"batch_bytes"`
	MaxBytes   int32  `json:"max_bytes"`
	RefreshMS  int64  `json:"refresh_ms"`
	Reset      string `json:"reset"`
	Isolation  string `json:"isolation"`
	Assignor   string `json:"assignor"`
	Instance   string `json:"instance"`
	Protocol   string `json:"protocol"`
}

type place struct {
	topic     string
	partition int32
}

// A question has the fields of all operations; each looks at its own.
type question struct {
	ID         int               `json:"id"`
	Op         string            `json:"op"`
	Topic      string            `json:"topic"`
	Topics     []string          `json:"topics"`
	Pattern    *string           `json:"pattern"`
	Assign     []place           `json:"assign"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Count      int               `json:"count"`
	Offset     int64             `json:"offset"`
	Before     int64             `json:"before"`
	At         json.RawMessage   `json:"at"`
	Metadata   string            `json:"metadata"`
	Configs    map[string]string `json:"configs"`
	Set        map[string]string `json:"set"`
	Delete     []string          `json:"delete"`
	Records    []record          `json:"records"`
	Settings   settings          `json:"settings"`
	Keep       *string           `json:"keep"`
	Name       string            `json:"name"`
	Values     []string          `json:"values"`
	End        string            `json:"end"`
	Group      *string           `json:"group"`
	Consumer   string            `json:"consumer"`
	MS         int64             `json:"ms"`
	Most       int               `json:"most"`
}

type fields map[string]any

var (
	bootstrap string
	admin     *kadm.Client
	output    sync.Mutex

	operations = map[string]func(context.Context, question) (any, error){
		"version":             version,
		"produce":             produce,
		"transact":            transact,
		"topics":              topics,
		"create_topic":        createTopic,
		"delete_topic":        deleteTopic,
		"create_partitions":   createPartitions,
		"describe_configs":    describeConfigs,
		"alter_configs":       alterConfigs,
		"alter_configs_older": alterConfigsOlder,
		"delete_records":      deleteRecords,
		"describe_cluster":    describeCluster,
		"describe_log_dirs":   describeLogDirs,
		"offsets":             offsets,
		"open":                open,
		"poll":                poll,
		"assigned":            assigned,
		"changes":             changes,
		"seek":                seek,
		"pause":               pause,
		"resume":              resume,
		"commit":              commit,
		"committed":           committed,
		"close":               closeConsumer,
		"group_offset":        groupOffset,
		"list_groups":         listGroups,
		"describe_group":      describeGroup,
		"delete_group":        deleteGroup,
		"delete_offset":       deleteOffset,
	}
)

func main() {
	bootstrap = os.Args[1]
	// Otherwise it would tell of topics as they were some seconds ago.
	client, err := connect(kgo.MetadataMinAge(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	admin = kadm.NewClient(client)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		go answer(asked)
	}
}

func answer(asked question) {
	told := fields{"id": asked.ID}
	ok, err := operations[asked.Op](context.Background(), asked)
	if err != nil {
		told["error"], told["words"] = nameOf(err), err.Error()
	} else {
		told["ok"] = ok
	}
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func nameOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return fmt.Sprintf("%T", err)
}

func version(context.Context, question) (any, error) {
	built, _ := debug.ReadBuildInfo()
	for _, one := range built.Deps {
		if one.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(one.Version, "v"), nil
		}
	}
	return "unknown", nil
}

func connect(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap))...)
}

// UnmarshalJSON reads a topic and a partition.
func (p *place) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.partition})
}

// MarshalJSON writes them.
func (p place) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.topic, p.partition})
}
