// Package deadlines keeps deadlines that outlive the process, in NATS JetStream.
package deadlines
