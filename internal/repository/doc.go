// Package repository has tests of what is around the library: the layout of its files, the README, the guide, what
// the packages import, and what they export (api.txt).
package repository
