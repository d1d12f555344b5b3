; ModuleID = 'counter.c'
source_filename = "counter.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

%struct.pair = type { i8, [2 x double] }

@sum = internal global [8 x i64] zeroinitializer, align 16, !dbg !0
@table = dso_local global [2 x ptr] [ptr @sum, ptr getelementptr (i8, ptr @sum, i64 32)], align 16, !dbg !5
@pair = internal global %struct.pair zeroinitializer, align 8, !dbg !12

; Function Attrs: noinline nounwind uwtable
define dso_local i32 @main() #0 !dbg !32 {
  %1 = alloca i32, align 4
  %2 = alloca ptr, align 8
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store i32 0, ptr %1, align 4
  call void @shmem_init(), !dbg !37
    #dbg_declare(ptr %2, !38, !DIExpression(), !39)
  %7 = call ptr @shmem_malloc(i64 noundef 800), !dbg !40
  store ptr %7, ptr %2, align 8, !dbg !39
    #dbg_declare(ptr %3, !41, !DIExpression(), !45)
  store ptr @step, ptr %3, align 8, !dbg !45
    #dbg_declare(ptr %4, !46, !DIExpression(), !48)
  store i32 0, ptr %4, align 4, !dbg !48
  br label %8, !dbg !49

8:                                                ; preds = %31, %0
  %9 = load i32, ptr %4, align 4, !dbg !50
  %10 = icmp slt i32 %9, 10, !dbg !52
  br i1 %10, label %11, label %34, !dbg !53

11:                                               ; preds = %8
  %12 = call i32 @shmem_checkpoint_all(), !dbg !54
  %13 = icmp ne i32 %12, 0, !dbg !57
  br i1 %13, label %14, label %15, !dbg !58

14:                                               ; preds = %11
  br label %31, !dbg !59

15:                                               ; preds = %11
  %16 = load ptr, ptr %3, align 8, !dbg !60
  %17 = load ptr, ptr %2, align 8, !dbg !61
  %18 = load i32, ptr %4, align 4, !dbg !62
  %19 = call i64 %16(ptr noundef %17, i32 noundef %18), !dbg !60
  %20 = load i32, ptr %4, align 4, !dbg !63
  %21 = srem i32 %20, 8, !dbg !64
  %22 = sext i32 %21 to i64, !dbg !65
  %23 = getelementptr inbounds [8 x i64], ptr @sum, i64 0, i64 %22, !dbg !65
  store i64 %19, ptr %23, align 8, !dbg !66
  %24 = load i32, ptr %4, align 4, !dbg !67
  switch i32 %24, label %30 [
    i32 3, label %25
    i32 4, label %26
  ], !dbg !68

25:                                               ; preds = %15
  store i8 1, ptr @pair, align 8, !dbg !69
  br label %30, !dbg !71

26:                                               ; preds = %15
  store i64 1, ptr %5, align 8, !dbg !72
  %27 = load i64, ptr %5, align 8, !dbg !72
  %28 = atomicrmw add ptr @sum, i64 %27 seq_cst, align 16, !dbg !72
  store i64 %28, ptr %6, align 8, !dbg !72
  %29 = load i64, ptr %6, align 8, !dbg !72
  br label %30, !dbg !73

30:                                               ; preds = %26, %15, %25
  call void asm sideeffect "", "~{memory},~{dirflag},~{fpsr},~{flags}"() #2, !dbg !74, !srcloc !75
  br label %31, !dbg !76

31:                                               ; preds = %30, %14
  %32 = load i32, ptr %4, align 4, !dbg !77
  %33 = add nsw i32 %32, 1, !dbg !77
  store i32 %33, ptr %4, align 4, !dbg !77
  br label %8, !dbg !78, !llvm.loop !79

34:                                               ; preds = %8
  call void @shmem_finalize(), !dbg !82
  ret i32 0, !dbg !83
}

declare void @shmem_init() #1

declare ptr @shmem_malloc(i64 noundef) #1

; Function Attrs: noinline nounwind uwtable
define internal i64 @step(ptr noundef %0, i32 noundef %1) #0 !dbg !84 {
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  store ptr %0, ptr %3, align 8
    #dbg_declare(ptr %3, !85, !DIExpression(), !86)
  store i32 %1, ptr %4, align 4
    #dbg_declare(ptr %4, !87, !DIExpression(), !88)
  %5 = load i32, ptr %4, align 4, !dbg !89
  %6 = sext i32 %5 to i64, !dbg !89
  %7 = load ptr, ptr %3, align 8, !dbg !90
  %8 = load i64, ptr %7, align 8, !dbg !91
  %9 = add nsw i64 %8, %6, !dbg !91
  store i64 %9, ptr %7, align 8, !dbg !91
  %10 = load ptr, ptr %3, align 8, !dbg !92
  %11 = load i64, ptr %10, align 8, !dbg !93
  ret i64 %11, !dbg !94
}

declare i32 @shmem_checkpoint_all() #1

declare void @shmem_finalize() #1

attributes #0 = { noinline nounwind uwtable "frame-pointer"="all" "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #1 = { "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #2 = { nounwind }

!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!24, !25, !26, !27, !28, !29, !30}
!llvm.ident = !{!31}

!0 = !DIGlobalVariableExpression(var: !1, expr: !DIExpression())
!1 = distinct !DIGlobalVariable(name: "sum", scope: !2, file: !3, line: 10, type: !21, isLocal: true, isDefinition: true)
!2 = distinct !DICompileUnit(language: DW_LANG_C11, file: !3, producer: "Debian clang version 19.1.7 (3~deb12u1)", isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug, globals: !4, splitDebugInlining: false, nameTableKind: None)
!3 = !DIFile(filename: "counter.c", directory: ".", checksumkind: CSK_MD5, checksum: "dad583c724666f718d5a7c89cc5ec2df")
!4 = !{!5, !0, !12}
!5 = !DIGlobalVariableExpression(var: !6, expr: !DIExpression())
!6 = distinct !DIGlobalVariable(name: "table", scope: !2, file: !3, line: 12, type: !7, isLocal: false, isDefinition: true)
!7 = !DICompositeType(tag: DW_TAG_array_type, baseType: !8, size: 128, elements: !10)
!8 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !9, size: 64)
!9 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
!10 = !{!11}
!11 = !DISubrange(count: 2)
!12 = !DIGlobalVariableExpression(var: !13, expr: !DIExpression())
!13 = distinct !DIGlobalVariable(name: "pair", scope: !2, file: !3, line: 11, type: !14, isLocal: true, isDefinition: true)
!14 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "pair", file: !3, line: 5, size: 192, elements: !15)
!15 = !{!16, !18}
!16 = !DIDerivedType(tag: DW_TAG_member, name: "c", scope: !14, file: !3, line: 6, baseType: !17, size: 8)
!17 = !DIBasicType(name: "char", size: 8, encoding: DW_ATE_signed_char)
!18 = !DIDerivedType(tag: DW_TAG_member, name: "d", scope: !14, file: !3, line: 7, baseType: !19, size: 128, offset: 64)
!19 = !DICompositeType(tag: DW_TAG_array_type, baseType: !20, size: 128, elements: !10)
!20 = !DIBasicType(name: "double", size: 64, encoding: DW_ATE_float)
!21 = !DICompositeType(tag: DW_TAG_array_type, baseType: !9, size: 512, elements: !22)
!22 = !{!23}
!23 = !DISubrange(count: 8)
!24 = !{i32 7, !"Dwarf Version", i32 5}
!25 = !{i32 2, !"Debug Info Version", i32 3}
!26 = !{i32 1, !"wchar_size", i32 4}
!27 = !{i32 8, !"PIC Level", i32 2}
!28 = !{i32 7, !"PIE Level", i32 2}
!29 = !{i32 7, !"uwtable", i32 2}
!30 = !{i32 7, !"frame-pointer", i32 2}
!31 = !{!"Debian clang version 19.1.7 (3~deb12u1)"}
!32 = distinct !DISubprogram(name: "main", scope: !3, file: !3, line: 19, type: !33, scopeLine: 19, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !2, retainedNodes: !36)
!33 = !DISubroutineType(types: !34)
!34 = !{!35}
!35 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!36 = !{}
!37 = !DILocation(line: 20, column: 5, scope: !32)
!38 = !DILocalVariable(name: "heap", scope: !32, file: !3, line: 21, type: !8)
!39 = !DILocation(line: 21, column: 11, scope: !32)
!40 = !DILocation(line: 21, column: 18, scope: !32)
!41 = !DILocalVariable(name: "call", scope: !32, file: !3, line: 22, type: !42)
!42 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !43, size: 64)
!43 = !DISubroutineType(types: !44)
!44 = !{!9, !8, !35}
!45 = !DILocation(line: 22, column: 12, scope: !32)
!46 = !DILocalVariable(name: "i", scope: !47, file: !3, line: 23, type: !35)
!47 = distinct !DILexicalBlock(scope: !32, file: !3, line: 23, column: 5)
!48 = !DILocation(line: 23, column: 14, scope: !47)
!49 = !DILocation(line: 23, column: 10, scope: !47)
!50 = !DILocation(line: 23, column: 21, scope: !51)
!51 = distinct !DILexicalBlock(scope: !47, file: !3, line: 23, column: 5)
!52 = !DILocation(line: 23, column: 23, scope: !51)
!53 = !DILocation(line: 23, column: 5, scope: !47)
!54 = !DILocation(line: 24, column: 13, scope: !55)
!55 = distinct !DILexicalBlock(scope: !56, file: !3, line: 24, column: 13)
!56 = distinct !DILexicalBlock(scope: !51, file: !3, line: 23, column: 34)
!57 = !DILocation(line: 24, column: 36, scope: !55)
!58 = !DILocation(line: 24, column: 13, scope: !56)
!59 = !DILocation(line: 25, column: 13, scope: !55)
!60 = !DILocation(line: 26, column: 22, scope: !56)
!61 = !DILocation(line: 26, column: 27, scope: !56)
!62 = !DILocation(line: 26, column: 33, scope: !56)
!63 = !DILocation(line: 26, column: 13, scope: !56)
!64 = !DILocation(line: 26, column: 15, scope: !56)
!65 = !DILocation(line: 26, column: 9, scope: !56)
!66 = !DILocation(line: 26, column: 20, scope: !56)
!67 = !DILocation(line: 27, column: 17, scope: !56)
!68 = !DILocation(line: 27, column: 9, scope: !56)
!69 = !DILocation(line: 29, column: 20, scope: !70)
!70 = distinct !DILexicalBlock(scope: !56, file: !3, line: 27, column: 20)
!71 = !DILocation(line: 30, column: 13, scope: !70)
!72 = !DILocation(line: 32, column: 13, scope: !70)
!73 = !DILocation(line: 33, column: 9, scope: !70)
!74 = !DILocation(line: 34, column: 9, scope: !56)
!75 = !{i64 752}
!76 = !DILocation(line: 35, column: 5, scope: !56)
!77 = !DILocation(line: 23, column: 30, scope: !51)
!78 = !DILocation(line: 23, column: 5, scope: !51)
!79 = distinct !{!79, !53, !80, !81}
!80 = !DILocation(line: 35, column: 5, scope: !47)
!81 = !{!"llvm.loop.mustprogress"}
!82 = !DILocation(line: 36, column: 5, scope: !32)
!83 = !DILocation(line: 37, column: 5, scope: !32)
!84 = distinct !DISubprogram(name: "step", scope: !3, file: !3, line: 14, type: !43, scopeLine: 14, flags: DIFlagPrototyped, spFlags: DISPFlagLocalToUnit | DISPFlagDefinition, unit: !2, retainedNodes: !36)
!85 = !DILocalVariable(name: "at", arg: 1, scope: !84, file: !3, line: 14, type: !8)
!86 = !DILocation(line: 14, column: 24, scope: !84)
!87 = !DILocalVariable(name: "i", arg: 2, scope: !84, file: !3, line: 14, type: !35)
!88 = !DILocation(line: 14, column: 32, scope: !84)
!89 = !DILocation(line: 15, column: 12, scope: !84)
!90 = !DILocation(line: 15, column: 6, scope: !84)
!91 = !DILocation(line: 15, column: 9, scope: !84)
!92 = !DILocation(line: 16, column: 13, scope: !84)
!93 = !DILocation(line: 16, column: 12, scope: !84)
!94 = !DILocation(line: 16, column: 5, scope: !84)
