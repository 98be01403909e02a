package document

// Duration writes a duration as the reference does.
var Duration = duration
