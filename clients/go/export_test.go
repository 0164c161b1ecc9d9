package tidings

// NewTransport is the transport of a client that is given none.
var NewTransport = newTransport
