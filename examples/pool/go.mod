module github.com/hashedwheel/hashedwheel/examples/pool

go 1.25

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/panjf2000/ants/v2 v2.12.1
)

require golang.org/x/sync v0.11.0 // indirect

replace github.com/hashedwheel/hashedwheel => ../..
