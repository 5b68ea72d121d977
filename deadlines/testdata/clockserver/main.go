// Clockserver is a nats-server whose wall clock is set by each line of its standard input, to as many seconds ahead. The
// test builds it with a package time that has Ahead.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: os.Args[1], NoLog: true, NoSigs: true,
	})
	if err != nil {
		panic(err)
	}
	srv.Start()
	srv.ReadyForConnections(time.Minute)
	fmt.Println(srv.ClientURL())
	for {
		var ahead int64
		if _, err := fmt.Scanln(&ahead); err != nil { // the test has ended
			srv.Shutdown()
			return
		}
		time.Ahead = ahead
		fmt.Println(time.Now().Unix())
	}
}
