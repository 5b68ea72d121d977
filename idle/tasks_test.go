package idle

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// The task of a connection tells what it is, and of what type.
func TestTasksTellTheConn(t *testing.T) {
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	defer timer.Stop()
	limit, err := New(timer, time.Hour)
	require.NoError(t, err)
	a, b := net.Pipe()
	defer b.Close()
	conn, err := limit.Conn(a)
	require.NoError(t, err)
	defer conn.Close()
	for task := range timer.Tasks() {
		require.Equal(t, "idle.Conn of *net.pipe", fmt.Sprint(task))
	}
}
