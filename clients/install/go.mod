module github.com/tidings/tidings/clients/install

go 1.25
