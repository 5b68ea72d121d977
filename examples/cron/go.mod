module github.com/hashedwheel/hashedwheel/examples/cron

go 1.25

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/robfig/cron/v3 v3.0.1
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/hashedwheel/hashedwheel => ../..
