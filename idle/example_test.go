package idle_test

import (
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
	fmt.Println(errors.Is(err, idle.ErrIdle), limit.Closed())
	// Output: true 1
}
