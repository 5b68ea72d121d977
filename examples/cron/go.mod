module github.com/hashedwheel/hashedwheel/examples/cron

go 1.25

require (
	github.com/hashedwheel/hashedwheel v0.0.0
	github.com/robfig/cron/v3 v3.0.1
)

replace github.com/hashedwheel/hashedwheel => ../..
