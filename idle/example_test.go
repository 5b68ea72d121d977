package idle_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/idle"
)

// A connection is closed when it has been silent for 50 ms. For a server, limit.Listener does this to each connection
// that it accepts.
func Example() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	limit, err := idle.New(timer, 50*time.Millisecond)
	if err != nil {
		panic(err)
	}
	_, server := net.Pipe() // the client never writes
	conn, err := limit.Conn(server)
	if err != nil {
		panic(err) // the timer is stopped, or too many timeouts are pending
	}
	_, err = io.ReadAll(conn)
	fmt.Println(errors.Is(err, idle.ErrIdle), limit.NumClosed())
	// Output: true 1
}

// The server sends a ping now and then. The peer answers three of them and then dies. Its system, or a router, still
// takes the pings, but with WithReadsOnly they do not keep the connection open.
func ExampleWithReadsOnly() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	limit, err := idle.New(timer, time.Second, idle.WithReadsOnly())
	if err != nil {
		panic(err)
	}
	peer, server := net.Pipe()
	conn, err := limit.Conn(server)
	if err != nil {
		panic(err)
	}
	go func() { // the server's pings
		for err := error(nil); err == nil; {
			time.Sleep(20 * time.Millisecond)
			_, err = io.WriteString(conn, "ping\n")
		}
	}()
	go func() { // the peer
		pings := bufio.NewReader(peer)
		for range 3 {
			pings.ReadString('\n')
			io.WriteString(peer, "pong\n")
		}
		io.Copy(io.Discard, pings)
	}()
	pongs := bufio.NewScanner(conn)
	for pongs.Scan() {
		fmt.Println(pongs.Text())
	}
	fmt.Println(errors.Is(pongs.Err(), idle.ErrIdle))
	// Output:
	// pong
	// pong
	// pong
	// true
}

// Each client says how long it may be silent, as with the keep-alive of MQTT. Until then, the limit for all holds.
func ExampleConn_SetSilence() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	limit, err := idle.New(timer, 10*time.Second) // for the first request
	if err != nil {
		panic(err)
	}
	client, server := net.Pipe()
	conn, err := limit.Conn(server)
	if err != nil {
		panic(err)
	}
	go io.WriteString(client, "50ms\n") // and then the client dies

	var keepAlive string
	if _, err := fmt.Fscanln(conn, &keepAlive); err != nil {
		panic(err)
	}
	d, err := time.ParseDuration(keepAlive)
	if err != nil {
		panic(err)
	}
	if err := conn.SetSilence(d * 3 / 2); err != nil {
		panic(err) // d is not positive, or the connection is closed
	}
	_, err = io.ReadAll(conn)
	fmt.Println(errors.Is(err, idle.ErrIdle))
	// Output: true
}

// A session has a limit while it waits for a request, and none while a request is in progress.
type session struct {
	conn  net.Conn
	limit hashedwheel.Timeout
}

// Run is called when no request has come for too long.
func (s *session) Run(*hashedwheel.Timeout) { s.conn.Close() }

func (s *session) serve(timer *hashedwheel.Timer) error {
	defer s.conn.Close()
	timer.Bind(&s.limit, s)
	for requests := bufio.NewReader(s.conn); ; {
		if _, err := s.limit.Reset(50 * time.Millisecond); err != nil {
			return err
		}
		request, err := requests.ReadString('\n')
		if !s.limit.Cancel() {
			return idle.ErrIdle // the limit has ended, and a request that has just come is not executed
		}
		if err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // the request may take longer than the limit
		if _, err := io.WriteString(s.conn, "done: "+request); err != nil {
			return err
		}
	}
}

// A Limit goes on while a request is in progress. To pause a limit, use a Timeout of your own instead: Reset before
// the server waits for a request, and Cancel as soon as one has come. If Cancel returns false, the limit has ended.
func Example_requests() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	client, conn := net.Pipe()
	ended := make(chan error)
	go func() { ended <- (&session{conn: conn}).serve(timer) }()
	io.WriteString(client, "request\n")
	answers, _ := io.ReadAll(client) // until the server closes the connection
	fmt.Printf("%s%v\n", answers, <-ended)
	// Output:
	// done: request
	// connection closed because it was idle
}
