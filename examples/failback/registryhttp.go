package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAddr is the longest address that a registry accepts over HTTP.
const maxAddr = 256

// handler serves the registry over HTTP. All changes are a PUT or a DELETE, which are safe to repeat.
func (r *registry) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /providers/{name}", func(w http.ResponseWriter, req *http.Request) {
		addr, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxAddr))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, r.register(req.Context(), req.PathValue("name"), string(addr)))
	})
	mux.HandleFunc("PUT /providers/{name}/lease", func(w http.ResponseWriter, req *http.Request) {
		reply(w, r.renew(req.Context(), req.PathValue("name")))
	})
	mux.HandleFunc("DELETE /providers/{name}", func(w http.ResponseWriter, req *http.Request) {
		reply(w, r.remove(req.Context(), req.PathValue("name")))
	})
	mux.HandleFunc("GET /providers", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(r.names())
	})
	return mux
}

func reply(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	default: // the registry has stopped
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// A registryClient is a client of a registry over HTTP.
type registryClient struct {
	http     http.Client
	endpoint *endpoint
}

func (c *registryClient) register(ctx context.Context, name, addr string) error {
	_, err := c.ask(ctx, http.MethodPut, "/providers/"+name, addr)
	return err
}

func (c *registryClient) renew(ctx context.Context, name string) error {
	_, err := c.ask(ctx, http.MethodPut, "/providers/"+name+"/lease", "")
	return err
}

func (c *registryClient) remove(ctx context.Context, name string) error {
	_, err := c.ask(ctx, http.MethodDelete, "/providers/"+name, "")
	return err
}

// names returns the sorted names of the providers that have a lease.
func (c *registryClient) names(ctx context.Context) (names []string, err error) {
	body, err := c.ask(ctx, http.MethodGet, "/providers", "")
	if err != nil {
		return nil, err
	}
	return names, json.Unmarshal(body, &names)
}

func (c *registryClient) ask(ctx context.Context, method, path, body string) (answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.endpoint.url(path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body) // to the end, so that the connection is reused
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, errUnknown
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	return answer, nil
}
