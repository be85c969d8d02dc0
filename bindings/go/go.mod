module transferengine

go 1.19
