package keyed

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The task of a key tells the type of its map, and not the key or the value.
func TestTasksTellTheMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[string, int](timer, nil)
		require.NoError(t, m.Set("secret", 1, tick))
		var all []string
		for task := range timer.Tasks() {
			all = append(all, fmt.Sprint(task))
		}
		require.Equal(t, []string{"keyed.Map[string,int]"}, all)
		m.Clear()
	})
}
