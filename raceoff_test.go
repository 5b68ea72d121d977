//go:build !race

package hashedwheel

const raceDetector = false
