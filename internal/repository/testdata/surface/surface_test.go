package surface

func InTest() {}
