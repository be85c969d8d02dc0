//go:build !te_installed

package transferengine

// In a tree of te: the header where it is, the library as make leaves it in build/, which the program finds there too.

/*
#cgo CFLAGS: -I${SRCDIR}/../../lib/include
#cgo LDFLAGS: -L${SRCDIR}/../../build -ltransfer_engine -Wl,-rpath,${SRCDIR}/../../build
*/
import "C"
