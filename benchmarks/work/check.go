package work

import (
	"math/rand/v2"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// runCheck is the correctness check for all peers. Nothing fires early or twice, and nothing is lost. A
// canceled timeout does not fire. A reset moves the deadline, to earlier or later. Nothing fires after Stop.
// The pace is slow enough for every queue.
func runCheck(b *bench) {
	b.doing("check")
	var want, canceled, stopped []*shot
	arm := func(list *[]*shot, d time.Duration) (*shot, peers.Handle) {
		s := new(shot)
		*list = append(*list, s)
		return s, s.arm(b.timer, d)
	}
	const far = 300 * time.Millisecond
	for i := range pick(b, 2000, 400) {
		d := 50*time.Millisecond + rand.N(100*time.Millisecond)
		switch i % 4 {
		case 0:
			arm(&want, d)
		case 1:
			_, h := arm(&canceled, d)
			if !b.timer.Cancel(h) && b.peer.Tells {
				b.failf("Cancel of a pending timeout returned false")
			}
		case 2:
			s, h := arm(&want, d)
			s.move(b.timer, h, d+far)
		case 3:
			s, h := arm(&want, d+far)
			s.move(b.timer, h, d)
		}
		if i%20 == 19 {
			time.Sleep(time.Millisecond)
		}
	}
	await(want, time.Second)
	b.setLateness(b.judge(want))
	if b.peer.Stops {
		for range 100 {
			arm(&stopped, 100*time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		b.doing("Stop")
		b.timer.Stop()
		time.Sleep(200 * time.Millisecond)
	}
	if n := count(canceled); n > 0 {
		b.failf("%d of %d fired though canceled", n, len(canceled))
	}
	if n := count(stopped); n > 0 {
		b.failf("%d of %d fired after Stop", n, len(stopped))
	}
}

func count(shots []*shot) (n int) {
	for _, s := range shots {
		if s.fired.Load() > 0 {
			n++
		}
	}
	return n
}
