//go:build race

package hashedwheel

// raceDetector says that sync.Pool forgets some of what it is given, at random.
const raceDetector = true
