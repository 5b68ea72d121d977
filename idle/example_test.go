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

// An echo server closes connections that are silent for longer than 50 ms.
func Example() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()
	limit, err := idle.New(timer, 50*time.Millisecond)
	if err != nil {
		panic(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln := limit.Listener(tcp)
	defer ln.Close()

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if _, err := io.Copy(conn, conn); errors.Is(err, idle.ErrIdle) {
		fmt.Println(idle.ErrIdle)
	}
	fmt.Println(limit.Closed(), "closed")
	// Output:
	// connection closed because it was idle
	// 1 closed
}
