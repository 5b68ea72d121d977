package deadlines

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
)

// What verify does with each field of a configuration. Any other text is the reason why the value of the field does not
// matter.
const (
	same = "same" // it must be as the store makes it
	own  = "own"  // verify has a check of its own
)

// The fields of a bucket and of a stream of wake-ups.
var recordsFields, wakeupsFields = streamFields(map[string]string{
	"MaxMsgsPerSubject":      "only Check reads earlier revisions",
	"Duplicates":             "records are stored by compare-and-set",
	"AllowRollup":            own,
	"AllowDirect":            "Open turns it off, and running processes ask the leader",
	"AllowMsgSchedules":      "no record is a schedule",
	"SubjectDeleteMarkerTTL": "a marker reads like a key that was never set",
	"Metadata":               own,
}), streamFields(map[string]string{
	"MaxMsgsPerSubject":      same,
	"Duplicates":             own,
	"AllowRollup":            "schedules need it, so servers turn it on",
	"AllowDirect":            same,
	"AllowMsgSchedules":      own,
	"SubjectDeleteMarkerTTL": same,
	"Metadata":               "without the ID, the time of creation counts",
})

// streamFields adds what both streams have in common.
func streamFields(fields map[string]string) map[string]string {
	maps.Copy(fields, map[string]string{
		"Name":                 same,
		"Description":          "people read it",
		"Subjects":             own,
		"Retention":            own,
		"MaxConsumers":         same,
		"MaxMsgs":              own,
		"MaxBytes":             own,
		"Discard":              own,
		"DiscardNewPerSubject": same,
		"MaxAge":               own,
		"MaxMsgSize":           own,
		"Storage":              own,
		"Replicas":             own,
		"NoAck":                same,
		"Placement":            "the number of replicas counts, not their place",
		"Mirror":               same,
		"Sources":              same,
		"Sealed":               same,
		"DenyDelete":           "the store deletes no message by its number",
		"DenyPurge":            same,
		"Compression":          "messages are the same after it",
		"FirstSeq":             "only the first number differs",
		"SubjectTransform":     same,
		"RePublish":            "others get copies",
		"MirrorDirect":         "only a mirror has it, and that is refused",
		"ConsumerLimits":       same,
		"Template":             "servers ignore it",
		"AllowMsgTTL":          own,
		"AllowMsgCounter":      same,
		"AllowAtomicPublish":   "it is for other programs",
		"AllowBatchPublish":    "it is for other programs",
		"PersistMode":          same,
	})
	return fields
}

var consumerFields = map[string]string{
	"Name":               same,
	"Durable":            same,
	"Description":        "people read it",
	"DeliverPolicy":      same,
	"OptStartSeq":        same,
	"OptStartTime":       same,
	"AckPolicy":          own,
	"AckWait":            own,
	"MaxDeliver":         own,
	"BackOff":            own,
	"FilterSubject":      own,
	"FilterSubjects":     own,
	"ReplayPolicy":       same,
	"RateLimit":          same,
	"SampleFrequency":    "servers then publish figures",
	"MaxWaiting":         own,
	"MaxAckPending":      own,
	"HeadersOnly":        own,
	"MaxRequestBatch":    own,
	"MaxRequestExpires":  own,
	"MaxRequestMaxBytes": "no worker asks for a number of bytes",
	"InactiveThreshold":  same,
	"Replicas":           own,
	"MemoryStorage":      same,
	"Metadata":           "the store has nothing there",
	"PauseUntil":         own,
	"PriorityPolicy":     same,
	"PinnedTTL":          same,
	"PriorityGroups":     same,
	"DeliverSubject":     same,
	"DeliverGroup":       same,
	"FlowControl":        same,
	"IdleHeartbeat":      same,
}

// unlike says which fields of a configuration are not as the store makes them. It compares also fields that are not
// listed.
func unlike(got, want any, fields map[string]string) (wrong []string) {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		f := g.Type().Field(i)
		if what, listed := fields[f.Name]; (what == same || !listed) && !alike(g.Field(i), w.Field(i)) {
			wrong = append(wrong, fmt.Sprintf("has %s=%s, not %s", nameOf(f), textOf(g.Field(i)), textOf(w.Field(i))))
		}
	}
	return wrong
}

// alike compares two values. Servers have -1 or 0 for a number without a limit, and nil or an empty list for none.
func alike(a, b reflect.Value) bool {
	switch {
	case a.CanInt():
		return max(a.Int(), 0) == max(b.Int(), 0)
	case a.Kind() == reflect.Slice && a.Len() == 0:
		return b.Len() == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// nameOf returns the name of a field on the servers.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func textOf(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	text, _ := json.Marshal(v.Interface())
	return string(text)
}
