// Package crossing has one test, which crosses all features of the library at random.
package crossing
