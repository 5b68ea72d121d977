package wheeldebug_test

import (
	"net/http"
	"net/http/pprof"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
)

// A server for operators only has the page beside profiles.
func Example() {
	timer, err := hashedwheel.New(hashedwheel.WithName("rpc"))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/hashedwheel", wheeldebug.Handler(timer))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	server := &http.Server{Addr: "localhost:6060", Handler: mux}
	go server.ListenAndServe()
	// ...
	server.Close()
}
