module peer

go 1.19

require transferengine v0.0.0

replace transferengine => ../../../bindings/go
