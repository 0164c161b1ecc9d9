module github.com/tidings/tidings

go 1.26.0

require (
	github.com/nicksnyder/go-i18n/v2 v2.7.0 // indirect
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	golang.org/x/text v0.44.0 // indirect
)
