module github.com/tidings/tidings/clients/contract

go 1.25
