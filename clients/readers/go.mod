module github.com/tidings/tidings/clients/readers

go 1.25
