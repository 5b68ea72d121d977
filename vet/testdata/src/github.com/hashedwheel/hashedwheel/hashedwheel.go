// Package hashedwheel has what the analyzers need of the library.
package hashedwheel

import (
	"sync/atomic"
	"time"
)

type Task interface{ Run(to *Timeout) }

type Canceler interface {
	Task
	Canceled(to *Timeout)
}

type Timer struct{}

func (*Timer) Bind(to *Timeout, task Task) {}

type Timeout struct {
	timer *Timer
	task  Task
	word  atomic.Uint64
}

func (to *Timeout) Cancel() bool                                 { return false }
func (to *Timeout) Reset(time.Duration) (active bool, err error) { return false, nil }
