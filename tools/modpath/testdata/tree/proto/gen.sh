protoc --go_opt=module=aliquot \
	--connect-go_opt=module=aliquot,simple x.proto
