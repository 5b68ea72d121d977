package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The configuration files in docs/cluster make a cluster. The test changes addresses and folders, and
// keeps the names, the limits and the passwords.
func TestConfigurationFiles(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "abc123")
	addresses := freeAddresses(t, 3)
	var urls string
	for i, address := range addresses {
		name := fmt.Sprintf("n%d", i+1)
		o, err := server.ProcessConfigFile(filepath.Join("..", "docs", "cluster", name+".conf"))
		require.NoError(t, err)
		assert.Equal(t, name, o.ServerName)
		assert.Equal(t, int64(10<<30), o.JetStreamMaxStore)
		assert.True(t, o.SyncAlways)
		assert.Equal(t, "127.0.0.1", o.HTTPHost)
		assert.Len(t, o.Routes, 3)

		o.StoreDir, o.NoSigs = t.TempDir(), true
		o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, server.RANDOM_PORT
		o.Cluster.Host, o.Cluster.Port, err = splitAddress(address)
		require.NoError(t, err)
		for j, r := range o.Routes {
			o.Routes[j] = &url.URL{Scheme: r.Scheme, User: r.User, Host: addresses[j]}
		}
		s, err := server.NewServer(o)
		require.NoError(t, err)
		s.SetLogger(&logger{log: newLogs(t).logger()}, false, false)
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		require.True(t, s.ReadyForConnections(waitLimit))
		urls += s.ClientURL() + ","
	}

	_, err := nats.Connect(urls)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	js := connect(t, urls, nats.UserInfo("deadlines", "abc123"))
	createStream(t, js, jetstream.StreamConfig{Name: "a", Replicas: 3})
	eventually(t, func(ctx context.Context) error { return allCurrent(ctx, js, "a") })
}

// The commands of the README in docs/cluster make files for three servers on one machine.
func TestClusterOnOneMachine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a Unix shell")
	}
	folder := filepath.Join("..", "docs", "cluster")
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	_, script, _ := strings.Cut(string(readme), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	dir, programs := t.TempDir(), t.TempDir()
	for _, name := range []string{"nats-server", "nats", "sleep"} { // which are not started
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"), 0o755))
	}
	shell := exec.Command("sh", "-ec", strings.ReplaceAll(script, "/tmp/deadlines", dir)+"wait")
	shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("NATS_PASSWORD", "abc123")
	for i := range 3 {
		o, err := server.ProcessConfigFile(filepath.Join(dir, fmt.Sprintf("n%d.conf", i+1)))
		require.NoError(t, err)
		require.Equal(t, []int{4221 + i, 8221 + i, 6221 + i}, []int{o.Port, o.HTTPPort, o.Cluster.Port})
		require.Equal(t, []string{"127.0.0.1", "127.0.0.1"}, []string{o.Host, o.Cluster.Host})
		require.Equal(t, filepath.Join(dir, fmt.Sprint("n", i+1)), o.StoreDir)
		for j, r := range o.Routes {
			require.Equal(t, fmt.Sprint("127.0.0.1:", 6221+j), r.Host)
		}
	}
}
