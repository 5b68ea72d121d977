package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const exitDamaged = 3 // the exit code for a file that is damaged

// openStore opens a file, and returns how many orders it has. It checks the whole file first, because bbolt panics on
// damaged pages, later also on goroutines of its own. After an error the file may stay locked until the process ends.
func openStore(file string, readOnly bool) (s *store, had map[state]int, err error) {
	s = &store{now: time.Now}
	err = guard(func() error {
		if info, err := os.Stat(file); readOnly && err == nil && info.Size() == 0 {
			return errors.New("it is empty")
		}
		options := &bbolt.Options{Timeout: time.Second, ReadOnly: readOnly, PreLoadFreelist: true}
		if s.db, err = bbolt.Open(file, 0o600, options); err != nil {
			return err
		}
		if had, err = s.check(); err != nil || readOnly {
			return err
		}
		return s.db.Update(func(tx *bbolt.Tx) error {
			_, err1 := tx.CreateBucketIfNotExists(ordersBucket)
			_, err2 := tx.CreateBucketIfNotExists(deadlinesBucket)
			return errors.Join(err1, err2)
		})
	})
	var system syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		err = fmt.Errorf("%s: another process has the file open", file)
	case err != nil && !errors.As(err, &system):
		err = demo.Exit{Code: exitDamaged, Err: fmt.Errorf("%s is damaged: %w", file, err)}
	}
	return s, had, err
}

// guard returns a panic of f as an error, also one from reading beyond the end of a truncated file.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}

// check counts the orders in each state. It returns an error if the file is not as the store's methods leave it.
func (s *store) check() (counts map[state]int, err error) {
	counts = make(map[state]int)
	err = s.db.View(func(tx *bbolt.Tx) error {
		orders, deadlines := tx.Bucket(ordersBucket), tx.Bucket(deadlinesBucket)
		if orders == nil && deadlines == nil {
			return nil // the file is new
		}
		err := orders.ForEach(func(k, v []byte) error {
			var o order
			if err := json.Unmarshal(v, &o); err != nil {
				return err
			}
			counts[o.state()]++
			id := binary.BigEndian.Uint64(k)
			listed := deadlines.Get(deadlineKey(o.Deadline, id)) != nil
			switch {
			case !bytes.Equal(orders.Get(k), v):
				return fmt.Errorf("order %d is not where bbolt looks for it", id)
			case id > orders.Sequence():
				return fmt.Errorf("order %d would be made again, after order %d", id, orders.Sequence())
			case o.state() != open && o.state() != paid && o.state() != canceled:
				return fmt.Errorf("order %d is %q", id, o.state())
			case len(o.Ends) > 1:
				return fmt.Errorf("order %d has ended twice", id)
			case o.state() == canceled && o.Ends[0].At.Before(o.Deadline):
				return fmt.Errorf("order %d was canceled before its deadline", id)
			case listed != (o.state() == open):
				return fmt.Errorf("order %d is %s, but listed with a deadline: %t", id, o.state(), listed)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n := deadlines.Stats().KeyN; n != counts[open] {
			return fmt.Errorf("%d deadlines are listed for %d open orders", n, counts[open])
		}
		// With a page that is too long, bbolt's own Check would count for hours. It comes last, because it runs on
		// another goroutine, which guard does not cover.
		if !pagesFit(tx) {
			return errors.New("the pages do not fit into the file")
		}
		for problem := range tx.Check() {
			err = errors.Join(err, problem)
		}
		return err
	})
	return counts, err
}

// pagesFit reports whether each page ends where the next one begins, and the last one where the file ends.
func pagesFit(tx *bbolt.Tx) bool {
	id := 0
	for page, _ := tx.Page(id); page != nil; page, _ = tx.Page(id) {
		id++
		if page.Type != "free" {
			id += page.OverflowCount
		}
	}
	return int64(id)*int64(tx.DB().Info().PageSize) == tx.Size()
}
