//go:build te_installed

package transferengine

// After make install: where pkg-config says (PKG_CONFIG_PATH).

/*
#cgo pkg-config: transfer_engine
*/
import "C"
