// Package crossing has the tests that cross all packages of the library, through their public methods alone: TestCrossing
// at random, and TestBothSidesOfABubble each method in turn.
package crossing
