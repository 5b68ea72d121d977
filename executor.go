package hashedwheel

import "runtime/debug"

// A job is a timeout in the hands of the executor. As long as it waits there the timeout is
// pending: it can be canceled, reset and handed back by Stop.
type job struct {
	runner // for the length of the task; its stripe is that of the timeout

	tick uint64 // the batch's

	// Guarded by runners.mu.
	to     *Timeout // nil once it has begun, or has been dropped
	ran    *Timeout // the same, from when it has begun until it has ended and has been submitted
	ended  bool     // it has ended, or has been submitted: then the other of these forgets ran
	broken bool     // it has begun, and has not returned: by a panic, or runtime.Goexit
}

// full reports whether the executor has as many jobs as there may be tasks at a time. Called
// with mu held.
func (r *runners) full() bool { return r.submit != nil && r.limit > 0 && r.busy >= r.limit }

// submitNext takes a timeout from the batch and gives it to the executor. It reports whether
// to go on. What the executor does not take runs here.
func (r *runners) submitNext(b *batch, s *stripe) bool {
	j := r.newJob(b, s)
	if j == nil {
		return false
	}
	if !r.trySubmit(j) {
		r.timer.unsubmitted.Add(1)
		j.run()
	}
	return true
}

// newJob takes a timeout from the batch and makes it a job, nil if there is none to be had. One
// that has been canceled it drops, since forget may have been there already.
func (r *runners) newJob(b *batch, s *stripe) *job {
	t := r.timer
	defer t.leave(s)
	if !t.enter(s) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() {
		return nil
	}
	to := b.take()
	for to != nil && status(to.word.Load()) != pending {
		to = b.take()
	}
	if to == nil {
		return nil
	}
	r.drop(to) // it has been reset since, and is due again
	j := &job{runner: runner{runners: r, stripe: t.queue.stripe(to)}, tick: b.tick, to: to}
	if r.jobs == nil {
		r.jobs = make(map[*Timeout]*job)
	}
	r.jobs[to] = j
	r.busy++
	return j
}

// trySubmit reports whether the executor has taken the job, for all that one can know: it may
// have begun, or ended, by then. An executor that panics has not taken it.
func (r *runners) trySubmit(j *job) (ok bool) {
	returned := false
	defer func() {
		to, broken := r.submitted(j)
		if returned {
			return
		}
		value := recover()
		if value == nil { // runtime.Goexit: this goroutine will not run it
			go j.run()
			return
		}
		if broken {
			panic(value) // the panic handler's, from a job that was run in the call
		}
		r.timer.reportPanic(to, value, debug.Stack())
	}()
	err := r.submit(j.run)
	returned = true
	return err == nil
}

// submitted says what an executor's panic is about. It is called when the executor has returned,
// and has the job, which the executor may keep, forget a task that has ended.
func (r *runners) submitted(j *job) (to *Timeout, broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to = j.to
	if to == nil {
		to = j.ran
	}
	if j.ended {
		j.ran = nil
	}
	j.ended = true // for finish
	return to, j.broken
}

// run runs the task, unless the timeout has ended or been reset meanwhile, or the job has been
// run before. Called by the executor, on whatever goroutine.
func (j *job) run() {
	r := j.runners
	t := r.timer
	open := t.enter(j.stripe)
	to := r.begin(j, open)
	claimed := false
	if to != nil {
		j.at.Store(claiming)
		claimed = j.claim(to, j.tick)
	}
	t.leave(j.stripe)
	if to == nil {
		return
	}
	returned := false
	defer func() {
		j.rest()
		r.finish(j, returned)
	}()
	if claimed {
		t.measured(t.lateClass(to), 1)
		j.runTask(to)
	}
	returned = true
}

// begin takes the timeout of a job, nil if there is none any more, and counts the job as at
// work. Called inside the gate.
func (r *runners) begin(j *job, open bool) *Timeout {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := j.to
	if to == nil || !open {
		return nil
	}
	j.to, j.ran = nil, to
	if r.jobs[to] == j {
		delete(r.jobs, to)
	}
	r.enlist(&j.runner)
	return to
}

// finish counts a job that had begun as ended, and has the next one submitted.
func (r *runners) finish(j *job, returned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.broken = !returned
	if j.ended {
		j.ran = nil
	}
	j.ended = true // for submitted
	r.busy--
	r.delist(&j.runner) // this makes room for another
	r.resume()
	r.lookIdle()
}

// forget drops the job of a timeout that has ended, if there is one. Called by the worker.
func (r *runners) forget(to *Timeout) {
	if r.submit == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drop(to) {
		r.resume()
	}
}

// drop drops the job of a timeout that has not begun, and reports whether there was one. Called
// with mu held.
func (r *runners) drop(to *Timeout) bool {
	j := r.jobs[to]
	if j == nil {
		return false
	}
	j.to = nil
	delete(r.jobs, to)
	r.busy--
	return true
}

// resume has somebody take what waits, now that there is room for it. Called with mu held.
func (r *runners) resume() {
	if r.limit > 0 && len(r.batches) > 0 {
		r.spawn(1)
	}
}
