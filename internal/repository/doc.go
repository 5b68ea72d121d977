// Package repository has tests of what is around the library: the layout of its files, the README, the guide, the
// size of the documentation, and what the packages import.
package repository
