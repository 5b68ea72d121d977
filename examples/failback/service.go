package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// idempotencyKey is the header that distinguishes a retry from a new order. Because of this header, an
// http.Transport may also repeat the request itself, when it finds that a kept connection is closed.
const idempotencyKey = "Idempotency-Key"

// A service carries out each order once, also when it gets the order more than once. Its results outlive its
// endpoint, as they would in a database.
type service struct {
	busy float64 // fraction of the requests that it refuses with status 503
	mute float64 // of the requests that it carries out, the fraction that it never answers

	mu       sync.Mutex
	answers  map[string]uint64 // by idempotency key
	ledger   []string          // the keys of the orders, in the order in which it carried them out
	repeated int               // requests for orders that it had carried out before
}

func newService(busy, mute float64) *service {
	return &service{busy: busy, mute: mute, answers: make(map[string]uint64)}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(idempotencyKey)
	switch {
	case r.Method != http.MethodPost || key == "":
		http.Error(w, "want a POST with an "+idempotencyKey, http.StatusBadRequest)
		return
	case rand.Float64() < s.busy:
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	answer := s.carryOut(key)
	if rand.Float64() < s.mute {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, answer)
}

// carryOut carries out an order, and returns the answer: its place in the ledger, from 1.
func (s *service) carryOut(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer, ok := s.answers[key]; ok {
		s.repeated++
		return answer
	}
	s.ledger = append(s.ledger, key)
	answer := uint64(len(s.ledger))
	s.answers[key] = answer
	return answer
}

// A serviceClient makes attempts at the service. It sets no http.Client.Timeout, which would need another
// timer of the runtime for each attempt. The context of an attempt already has a timeout.
type serviceClient struct {
	http     http.Client
	endpoint *endpoint
}

// try makes an attempt for a failback.
func (c *serviceClient) try(ctx context.Context, id uint64) (answer uint64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.url("/orders"), nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %v", errPermanent, err)
	}
	req.Header.Set(idempotencyKey, keyOf(id))
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // to the end, so that the connection is reused
	switch {
	case err != nil:
		return 0, err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return 0, errBusy
	case resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%w: status %s", errPermanent, resp.Status)
	}
	if answer, err = strconv.ParseUint(string(body), 10, 64); err != nil {
		return 0, fmt.Errorf("%w: %v", errPermanent, err)
	}
	return answer, nil
}

func keyOf(id uint64) string { return "order-" + strconv.FormatUint(id, 10) }

var errBusy = errors.New("the service is busy")

// kindOf returns the reason why an attempt failed, for the report.
func kindOf(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, errPermanent):
		return "permanently"
	case errors.Is(err, errBusy):
		return "by status 503"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.As(err, &op) && op.Op == "dial":
		return "refused"
	}
	return "cut off"
}
