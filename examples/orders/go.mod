module github.com/hashedwheel/hashedwheel/examples/orders

go 1.25.0

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/stretchr/testify v1.12.1
	go.etcd.io/bbolt v1.5.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.45.0 // indirect
)

replace github.com/hashedwheel/hashedwheel => ../..
