// Package crossing has the tests that cross all packages of the library, through their public methods alone. TestCrossing
// does so at random. TestBothSidesOfABubble calls each method in turn. TestEndedAreNotHeld ends timeouts in each way.
package crossing
