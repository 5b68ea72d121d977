// Package crossing has the tests that cross all packages of the library, through their public methods alone. Most are of
// promises that no change of the mechanism may break: each end of a timeout, Stop at any moment, memory, and bubbles. They
// include the model of the whole timer and its fuzz target, the tests under load, and most races.
package crossing

import _ "github.com/hashedwheel/hashedwheel" // the scenarios use a copy of what this package imports
