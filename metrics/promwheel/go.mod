module github.com/hashedwheel/hashedwheel/metrics/promwheel

go 1.25

replace github.com/hashedwheel/hashedwheel => ../..

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/prometheus/client_golang v1.19.0
	github.com/prometheus/client_model v0.5.0
	github.com/prometheus/common v0.48.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/prometheus/procfs v0.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.16.0 // indirect
	google.golang.org/protobuf v1.32.0 // indirect
)
