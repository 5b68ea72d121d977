//go:build race

package hashedwheel

// raceDetector says that the race detector is on. Then sync.Pool drops some of the values put into it, at random.
const raceDetector = true
