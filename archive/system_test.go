package archive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// system is everything from a like to its row: facts in Redis, a topic, the
// archive. No archiver runs unless a test starts one.
type system struct {
	t         *testing.T
	server    *enginetest.RedisServer
	direct    redis.UniversalClient
	redis     *counter.Redis
	db        *bun.DB
	store     *archive.Store
	kafka     counter.KafkaConfig
	group     string
	ordinals  *counter.Ordinals
	publisher *counter.Publisher
	facts     *counter.Facts
	reader    *counter.Reader
}

func newSystem(t *testing.T, db *bun.DB, options enginetest.RedisOptions) *system {
	t.Helper()
	server := enginetest.StartRedis(t, options)
	parsed, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := systemAt(t, db, server.URL(), redis.NewClient(parsed))
	s.server = server
	return s
}

// systemAt is a system on a Redis, or a cluster, that runs already.
func systemAt(t *testing.T, db *bun.DB, url string, direct redis.UniversalClient) *system {
	t.Helper()
	s := &system{t: t, db: db, store: archive.NewStore(db), kafka: topic(t), group: enginetest.Topic(t, "group"), direct: direct}
	t.Cleanup(func() { _ = s.direct.Close() })
	var err error
	if s.redis, err = counter.OpenRedis(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.redis.Close() })
	if err := s.redis.DeclareEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.ordinals = counter.NewOrdinals(counter.NewSQLOrdinals(db))
	s.publisher = counter.NewPublisher(s.redis, s.kafka, quiet)
	t.Cleanup(func() { _ = s.publisher.Close() })
	background(t, s.publisher.Run)
	s.facts = counter.NewFacts(s.redis, s.ordinals, quiet, counter.FactsConfig{OnChange: s.publisher.Offer, OutboxLimit: 1 << 30})
	s.reader = counter.NewReader(s.redis, s.ordinals, counter.ReaderConfig{Timeout: 5 * time.Second})
	return s
}

func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (s *system) set(o int, id string, m counter.Metric, want bool) counter.Outcome {
	s.t.Helper()
	outcome, err := s.facts.Set(s.t.Context(), viewer(o), post(s.t, id), m, want)
	if err != nil {
		s.t.Fatalf("set %s of %s by %d to %t: %v", m, id, o, want, err)
	}
	return outcome
}

// setAll is set for many viewers at once.
func (s *system) setAll(viewers []int, id string, m counter.Metric, want bool) {
	s.t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(viewers, len(viewers)/8+1) {
		group.Go(func() {
			for _, o := range part {
				if _, err := s.facts.Set(s.t.Context(), viewer(o), post(s.t, id), m, want); err != nil {
					s.t.Errorf("set %s of %s by %d: %v", m, id, o, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func (s *system) restorer(from counter.Archive) *counter.Restorer {
	return counter.NewRestorer(s.redis, from, counter.NewSQLOrdinals(s.db),
		counter.NewCatchUp(s.kafka, s.group, from), s.publisher, quiet, counter.RestorerConfig{Every: 50 * time.Millisecond})
}

func (s *system) restore() counter.Restored {
	s.t.Helper()
	done, err := s.restorer(s.store).Restore(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

// published waits until the outboxes are empty: Kafka has all there is.
func (s *system) published() {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "empty outboxes", func() bool {
		pipe := s.direct.Pipeline()
		for t := range counter.Tags {
			pipe.XLen(s.t.Context(), fmt.Sprintf("out{%02x}", t))
		}
		cmds, err := pipe.Exec(s.t.Context())
		for _, cmd := range cmds {
			length, _ := cmd.(*redis.IntCmd)
			if length == nil || length.Val() > 0 {
				return false
			}
		}
		return err == nil
	})
}

func (s *system) empty() {
	s.t.Helper()
	if err := s.direct.FlushAll(s.t.Context()).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// forget takes the epochs away and nothing else.
func (s *system) forget() {
	s.t.Helper()
	for t := range counter.Tags {
		if err := s.direct.Del(s.t.Context(), fmt.Sprintf("epoch{%02x}", t)).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// held is all facts that lie in Redis, by subject and metric, with the number in
// `n` where there is one. It reads every container there is, as no server does.
func (s *system) held() map[string][]int {
	s.t.Helper()
	ctx := s.t.Context()
	names, err := s.direct.Keys(ctx, "bm:*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	facts, populations := map[string][]int{}, map[string]int{}
	for _, name := range names {
		parts := strings.Split(strings.SplitN(name, "{", 2)[0], ":")
		of, rest := strings.Join(parts[1:4], ":"), parts[4:]
		switch {
		case len(rest) == 1 && rest[0] == "few":
			facts[of] = append(facts[of], s.members(name, 0)...)
		case len(rest) == 1 && rest[0] == "n":
			if populations[of], err = s.direct.Get(ctx, name).Int(); err != nil {
				s.t.Fatal(err)
			}
		case len(rest) == 1 && rest[0] == "chunks":
		case len(rest) == 2:
			facts[of] = append(facts[of], s.members(name, number(s.t, rest[0]))...)
		default:
			bits, err := s.direct.Get(ctx, name).Bytes()
			if err != nil {
				s.t.Fatal(err)
			}
			for i := range 8 * len(bits) {
				if bits[i/8]&(0x80>>(i%8)) != 0 {
					facts[of] = append(facts[of], number(s.t, rest[0])*32768+i)
				}
			}
		}
	}
	for of, n := range populations {
		if len(facts[of]) != n {
			s.t.Errorf("%s: n is %d of %d facts", of, n, len(facts[of]))
		}
	}
	for of := range facts {
		slices.Sort(facts[of])
		if len(slices.Compact(slices.Clone(facts[of]))) != len(facts[of]) {
			s.t.Errorf("%s: a fact lies in two containers", of)
		}
	}
	maps.DeleteFunc(facts, func(_ string, all []int) bool { return len(all) == 0 })
	return facts
}

func (s *system) members(key string, chunk int) (all []int) {
	s.t.Helper()
	members, err := s.direct.SMembers(s.t.Context(), key).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, member := range members {
		all = append(all, chunk*32768+number(s.t, member))
	}
	return all
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// same compares facts and says where they differ, briefly.
func same(t *testing.T, got, want map[string][]int) {
	t.Helper()
	for of := range maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
		for of := range got {
			if !yield(of, true) {
				return
			}
		}
		for of := range want {
			if !yield(of, true) {
				return
			}
		}
	})) {
		if !slices.Equal(got[of], want[of]) {
			t.Errorf("%s: %d facts, want %d; the first of them %v and %v", of, len(got[of]), len(want[of]),
				got[of][:min(5, len(got[of]))], want[of][:min(5, len(want[of]))])
		}
	}
}

// countsAre compares the counts that a page shows with the facts.
func (s *system) countsAre(facts map[string][]int, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		readings, err := s.reader.Counts(s.t.Context(), []counter.Subject{post(s.t, id)})
		if err != nil {
			s.t.Fatal(err)
		}
		like, fav := len(facts["like:post:"+id]), len(facts["fav:post:"+id])
		if got := readings[0]; !got.Known || int(got.Counts.Like) != like || int(got.Counts.Fav) != fav {
			s.t.Errorf("counts of %s are %+v, want %d and %d", id, got, like, fav)
		}
	}
}

// open opens one of SQLite with as many users, spread over chunks if asked: then
// viewer o has ordinal o*step.
func openSpread(t *testing.T, address string, users, step int) *bun.DB {
	t.Helper()
	db := openWith(t, address, users)
	if step > 1 {
		execute(t, db, "UPDATE users SET ordinal = -ordinal * ?", step)
		execute(t, db, "UPDATE users SET ordinal = -ordinal")
	}
	return db
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

var errStop = errors.New("stopped by the test")
