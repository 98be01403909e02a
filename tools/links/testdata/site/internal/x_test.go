package internal

func TestThere(t *testing.T) {}
