//go:build !windows

package surface

func Everywhere(fd uintptr) {}
