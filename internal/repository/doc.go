// Package repository has tests of what is around the library: the layout of its files, the README, the guide, what
// the packages import, what they export (api.txt), and which tests know the queue.
package repository
