//go:build !race

package clock_test

const raceDetector = false
