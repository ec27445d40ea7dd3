// The franz-go client, driven line by line over standard input: an id and tab-separated words in, the id and
// tab-separated words out. Words are written as in a URL's query, so that they may hold tabs and ends of lines. An answer
// begins with "ok", or with "error", the error's name and its message. Questions are answered side by side: who asks
// decides what waits for what.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const patience = 30 * time.Second

var commands = map[string]func(context.Context, []string) ([]string, error){
	"producer": openProducer, "init": initProducer, "begin": begin, "send": send, "flush": flush, "offsets": sendOffsets,
	"commit": commit, "abort": abort, "close": closeProducer,
	"read": read, "end": endOffset, "committed": committedOffset,
	"subscribe": subscribe, "poll": poll, "commit-polled": commitPolled, "assigned": assigned, "leave": leave,
	"create": createTopic, "topics": listTopics, "partitions": countPartitions, "grow": growTopic, "delete": deleteTopic,
	"setting": describeSetting, "set": alterSetting, "delete-records": deleteRecords,
	"groups": listGroups, "delete-group": deleteGroup,
}

func main() {
	var writing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := wordsOf(lines.Text())
		go func() {
			answer := lineOf(append([]string{words[0]}, run(words[1], words[2:])...))
			writing.Lock()
			defer writing.Unlock()
			fmt.Println(answer)
		}()
	}
}

func wordsOf(line string) []string {
	var words []string
	for _, written := range strings.Split(line, "\t") {
		word, err := url.QueryUnescape(written)
		if err != nil {
			panic(err)
		}
		words = append(words, word)
	}
	return words
}

func lineOf(words []string) string {
	var written []string
	for _, word := range words {
		written = append(written, url.QueryEscape(word))
	}
	return strings.Join(written, "\t")
}

func run(command string, words []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := commands[command](ctx, words)
	if err != nil {
		name := "error"
		var kafka *kerr.Error
		if errors.As(err, &kafka) {
			name = kafka.Message
		}
		return []string{"error", name, err.Error()}
	}
	return append([]string{"ok"}, answer...)
}

// A number of the command line; the other side writes nothing else.
func number(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

func words(values ...any) []string {
	said := make([]string, 0, len(values))
	for _, value := range values {
		said = append(said, fmt.Sprint(value))
	}
	return said
}
