module github.com/tidings/tidings/clients/go

go 1.24
