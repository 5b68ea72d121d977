module github.com/hashedwheel/hashedwheel/examples/pool

go 1.25

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/panjf2000/ants/v2 v2.12.1
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.11.0 // indirect
)

replace github.com/hashedwheel/hashedwheel => ../..
